/** Name and version of this package, which an operator is shown; the same on every device. */
export const SOFTWARE = "askance-typescript/0.1.0";
