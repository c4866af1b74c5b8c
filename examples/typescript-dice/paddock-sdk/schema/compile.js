/** Schemas compiled once and asked often, that tell every mistake of a value at once. Pure. */
import { isObject } from "../json.js";
import { canonical, kindOf, shown, SKIPPED } from "./findings.js";
import { LIMITS } from "./limits.js";
const NOTES = new Set("$schema $comment $defs title description default examples format deprecated".split(" "));
const COMPOSED = new Set("properties required additionalProperties items anyOf oneOf allOf not $ref".split(" "));
const BASIC = new Set(["type", "enum", "const"]);
/**
 * The check that a schema asks for.
 *
 * @throws TypeError: the schema uses a keyword that is not checked here, or uses one wrongly.
 */
export function compile(schema) {
    const definitions = typeof schema === "object" ? (schema.$defs ?? {}) : {};
    const scope = { definitions, compiled: new Map() };
    const check = compileIn(schema, scope, "");
    for (const name of Object.keys(definitions)) {
        reference(`#/$defs/${name}`, scope, `$defs.${name}`); // also those that nothing refers to: a mistake is one
    }
    return check;
}
function compileIn(schema, scope, at) {
    if (schema === true) {
        return () => undefined;
    }
    if (schema === false) {
        return (_value, path, find) => find(path, "nothing is allowed here");
    }
    if (!isObject(schema)) {
        throw new TypeError(`${at || "the schema"} must be an object, true or false`);
    }
    const checks = [];
    const typeFirst = Object.entries(schema).sort(([a], [b]) => Number(b === "type") - Number(a === "type"));
    for (const [keyword, operand] of typeFirst) {
        const where = below(at, keyword);
        if (BASIC.has(keyword)) {
            checks.push(basic(keyword, operand, where));
        }
        else if (Object.hasOwn(LIMITS, keyword)) {
            checks.push(LIMITS[keyword](operand, where));
        }
        else if (!COMPOSED.has(keyword) && !NOTES.has(keyword)) {
            throw new TypeError(`${where}: this keyword is not checked here; leave it to the manifest`);
        }
    }
    checks.push(...fields(schema, scope, at), ...compositions(schema, scope, at));
    const [only] = checks;
    if (checks.length === 1 && only) {
        return only;
    }
    return (value, path, find) => {
        for (const check of checks) {
            if (check(value, path, find) === SKIPPED) {
                return SKIPPED; // of another type altogether: everything else that could be said about it is noise
            }
        }
        return undefined;
    };
}
function basic(keyword, operand, at) {
    if (keyword === "const") {
        const expected = canonical(operand);
        return (value, path, find) => canonical(value) === expected ? undefined : find(path, `expected ${shown(operand)}, found ${shown(value)}`);
    }
    if (keyword === "enum") {
        const options = list(operand, at);
        const allowed = new Set(options.map(canonical));
        const listed = options.slice(0, 20).map(shown).join(", ");
        return (value, path, find) => allowed.has(canonical(value)) ? undefined : find(path, `${shown(value)} is not one of ${listed}`);
    }
    const types = typeof operand === "string" ? [operand] : list(operand, at);
    const known = ["null", "boolean", "integer", "number", "string", "array", "object"];
    if (!types.every((name) => known.includes(name))) {
        throw new TypeError(`${at} must be one of ${known.join(", ")}, or a list of them`);
    }
    const fits = new Set(types.includes("number") ? [...types, "integer"] : types);
    return (value, path, find) => {
        const kind = kindOf(value);
        if (!fits.has(kind)) {
            find(path, `expected ${types.join(" or ")}, found ${kind}`);
            return SKIPPED;
        }
        return undefined;
    };
}
function* fields(schema, scope, at) {
    const { properties = {}, required = [], additionalProperties = true, items } = schema;
    const known = new Map(Object.entries(properties).map(([name, part]) => [name, compileIn(part, scope, below(at, `properties.${name}`))]));
    const needed = list(required, below(at, "required"));
    const others = compileIn(additionalProperties, scope, below(at, "additionalProperties"));
    const ofAnObject = known.size > 0 || needed.length > 0 || additionalProperties !== true;
    yield (value, path, find) => {
        if (!ofAnObject || !isObject(value)) {
            return;
        }
        for (const name of needed) {
            if (!Object.hasOwn(value, name)) {
                find([...path, name], `missing field '${name}'`);
            }
        }
        for (const [name, part] of Object.entries(value)) {
            const check = known.get(name);
            if (!check && additionalProperties === false) {
                find([...path, name], "unknown field");
            }
            else {
                (check ?? others)(part, [...path, name], find);
            }
        }
    };
    if (items !== undefined) {
        const each = compileIn(items, scope, below(at, "items"));
        yield (value, path, find) => {
            if (Array.isArray(value)) {
                value.forEach((item, index) => each(item, [...path, index], find));
            }
        };
    }
}
function* compositions(schema, scope, at) {
    const branches = (keyword) => list(schema[keyword] ?? [], below(at, keyword)).map((part, index) => compileIn(part, scope, below(at, `${keyword}[${index}]`)));
    yield* branches("allOf");
    if (schema.anyOf) {
        const any = branches("anyOf");
        yield (value, path, find) => any.some((check) => fits(check, value)) || none(any, value, path, find);
    }
    if (schema.oneOf) {
        const one = branches("oneOf");
        yield (value, path, find) => {
            const fitting = one.filter((check) => fits(check, value)).length;
            if (fitting > 1) {
                find(path, "fits more than one of the allowed forms");
            }
            else if (fitting === 0) {
                none(one, value, path, find);
            }
        };
    }
    if (schema.not !== undefined) {
        const forbidden = compileIn(schema.not, scope, below(at, "not"));
        yield (value, path, find) => fits(forbidden, value) ? find(path, `${shown(value)} is not allowed here`) : undefined;
    }
    if (schema.$ref !== undefined) {
        yield reference(schema.$ref, scope, below(at, "$ref"));
    }
}
/** What to say when no form fits: the mistakes in the one that was meant, if only one is of the value's type. */
function none(branches, value, path, find) {
    const meant = branches.filter((check) => check(value, path, () => undefined) !== SKIPPED);
    const [only] = meant;
    if (only && meant.length === 1) {
        only(value, path, find);
    }
    else {
        find(path, `${shown(value)} fits none of the allowed forms`);
    }
}
function reference(target, scope, at) {
    const name = /^#\/\$defs\/([^/~%]+)$/.exec(target)?.[1];
    const definition = name !== undefined && Object.hasOwn(scope.definitions, name) ? scope.definitions[name] : undefined;
    if (name === undefined || definition === undefined) {
        throw new TypeError(`${at}: ${target} is not in $defs of this schema`);
    }
    if (!scope.compiled.has(name)) {
        let whole = () => undefined;
        scope.compiled.set(name, (...asked) => whole(...asked)); // first, for a definition that refers to itself
        whole = compileIn(definition, scope, `$defs.${name}`);
    }
    return scope.compiled.get(name);
}
function fits(check, value) {
    let sound = true;
    check(value, [], () => {
        sound = false;
    });
    return sound;
}
function list(operand, at) {
    if (!Array.isArray(operand)) {
        throw new TypeError(`${at} must be a list`);
    }
    return operand;
}
function below(at, part) {
    return at ? `${at}.${part}` : part;
}
