"""What every route shares: access, bodies, formats, paging, problems."""
