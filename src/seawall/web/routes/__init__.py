"""The API's routes, a module for each kind of thing. Who may use one stands in its signature."""
