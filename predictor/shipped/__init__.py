"""The predictor that comes with the package: trained on published timm measurements and our own operator traces."""
