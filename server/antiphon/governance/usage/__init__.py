"""What runs used: charges, budgets, reports."""
