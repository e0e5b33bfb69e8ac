"""Statistics of gateways: seconds in a mapped ring, minutes and hours in Parquet files."""
