"""Dead letters on their way back into the application."""
