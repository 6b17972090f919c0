"""The bundled usemem and the named cases of vm-scalability."""
