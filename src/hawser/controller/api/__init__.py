"""The REST API. The pages use it as any program does."""
