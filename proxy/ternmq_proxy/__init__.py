"""The stateless proxy: fronts take calls, activities check and answer them, a MessageService acts."""
