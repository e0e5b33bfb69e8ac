"""What may be part of a lab besides nodes and daemons, whatever its machines are."""
