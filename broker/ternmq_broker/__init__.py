"""The storage broker: `store` keeps the bytes, `delivery` decides which consumer gets them, `broker` runs both."""
