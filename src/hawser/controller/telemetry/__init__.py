"""What is observed: state of gateways in the database, their newest statistics in memory."""
