// Visits a page with Lighthouse: node audit.mjs PORT RUNS ADDRESS, where PORT is that of a browser.
// Prints the reports, a line each: the first of all categories, the others of the speed alone.
// Runs in the folder that Lighthouse was installed in.

import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const installed = createRequire(pathToFileURL('./').href).resolve('lighthouse');
const {default: lighthouse} = await import(pathToFileURL(installed).href);
const [port, runs, address] = process.argv.slice(2);

for (let run = 0; run < runs; run++) {
  const speed = {onlyCategories: ['performance'], disableFullPageScreenshot: true};
  const options = {port, logLevel: 'error', ...(run ? speed : {})};
  const {lhr} = await lighthouse(address, options);
  if (lhr.runtimeError) throw new Error(`${address}: ${lhr.runtimeError.message}`);
  const {categories, audits} = lhr;
  console.log(JSON.stringify({categories, audits}));
}
