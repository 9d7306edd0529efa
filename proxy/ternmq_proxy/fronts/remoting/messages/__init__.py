"""Messages in the form that 4.x clients send and read, and the stored form of what they send."""
