"""The storage broker: `store` keeps the bytes, `delivery` decides who gets them, `broker` runs both."""
