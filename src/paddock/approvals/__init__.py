"""A person's yes to one exact thing: asked for, answered, used once. Standing ones last longer and say less."""
