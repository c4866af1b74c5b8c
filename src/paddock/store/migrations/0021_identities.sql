-- Who people are at an identity provider: its own name for somebody, once they signed in through it.

CREATE TABLE person_identities (
    tenant    {text} NOT NULL,
    person    {text} NOT NULL,
    issuer    {text} NOT NULL,
    subject   {text} NOT NULL,
    linked_at {text} NOT NULL,
    PRIMARY KEY (tenant, issuer, subject),
    UNIQUE (tenant, person, issuer),
    FOREIGN KEY (tenant, person) REFERENCES people (tenant, name) ON DELETE CASCADE
) {strict};
