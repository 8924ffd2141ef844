export type Randomizer = { readonly vectorCoins: number };
