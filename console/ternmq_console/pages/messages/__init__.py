"""Pages of messages: find, show, follow and send them."""
