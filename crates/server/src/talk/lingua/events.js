// What a session tells its owner.
export {};
