"""What the drivers of the clouds share: objects by obstore, and the meaning of its errors."""
