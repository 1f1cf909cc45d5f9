"""What is known by name: hardware, models, machines for rent, prices, language models."""
