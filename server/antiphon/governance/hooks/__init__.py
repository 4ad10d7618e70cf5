"""Extensions of the operator: how they are loaded, called and kept from doing harm."""
