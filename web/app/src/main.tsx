/** Starts the app. */
import { createRoot } from 'react-dom/client';
import '@sederunt/react/styles.css';
import './styles/app.css';
import { App } from './App.js';
import { takeShareToken } from './auth/shareToken.js';
import { createQueries } from './lib/queries.js';

takeShareToken();

const element = document.getElementById('app');
if (element === null) throw new Error('index.html has no element `app`');

createRoot(element).render(<App queries={createQueries()} />);
