"""One module per transport: how bytes leave (and, through the ingress log, enter) an application."""
