"""What the models are trained on: sentences, a made-up language, pictures of shapes."""
