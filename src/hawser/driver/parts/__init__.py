"""Parts of a lab besides nodes and daemons, for all kinds of machines."""
