"""What is recorded, in sentences for people: words for every type of entry."""
