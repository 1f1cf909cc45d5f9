"""Operations: whether the service keeps up. For operators."""
