"""The recording: its frames, its quality ledger, its Parquet schema, reader and writer."""
