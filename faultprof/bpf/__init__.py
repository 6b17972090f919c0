"""The only importer of bcc: compiles a file of probes/, attaches it, reads its maps."""
