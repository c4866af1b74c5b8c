-- Every set of rules that was ever in force, whole, so that an old decision can be explained by the rules of its day.

CREATE TABLE policy_versions (
    version  {text} PRIMARY KEY,
    document {text} NOT NULL, -- the rules with where each came from, and the tags they may name, as JSON
    first_at {text} NOT NULL
) {strict};

-- When which came into force. The same rules may come back.
CREATE TABLE policy_in_force (
    since   {text} NOT NULL,
    version {text} NOT NULL REFERENCES policy_versions (version),
    PRIMARY KEY (since, version)
) {strict};
