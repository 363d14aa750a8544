/** Whether single letters are shortcuts. */
import { storedChoice } from '../lib/storedChoice.js';

export const letterKeys = storedChoice('sederunt:letter-keys', ['on', 'off']);
