"""Where nodes come from: plans become labs, and labs nothing again."""
