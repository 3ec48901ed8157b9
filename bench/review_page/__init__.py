"""How long each route of the review page takes on large warehouses."""
