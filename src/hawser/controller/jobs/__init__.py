"""What the controller does by itself: it computes configurations when something has changed."""
