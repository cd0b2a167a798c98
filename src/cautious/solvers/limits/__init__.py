"""Problems with constraints."""
