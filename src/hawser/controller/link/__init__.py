"""The connections of gateways."""
