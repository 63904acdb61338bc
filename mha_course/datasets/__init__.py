"""What the models are trained on: sentences of a small grammar, a made-up language, pictures of
shapes.
"""
