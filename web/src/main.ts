// The pages that a server answers: of a daemon, or of 'ccmapd ui'.
import { App } from "./app";
import { comparePage } from "./comparepage";
import { doctorPage } from "./doctorpage";
import { flamePage } from "./flamepage";
import { fleetPage } from "./fleetpage";
import { homePage } from "./homepage";
import { queryPage, topPage } from "./listpages";
import { Live } from "./live";
import { receiversPage } from "./receiverspage";
import { Remote } from "./remote";
import { Address } from "./state";
import { targetPage } from "./targetpage";
import { timePage } from "./timepage";
import { tuningPage } from "./tuningpage";

const pages = {
  home: homePage, target: targetPage, flame: flamePage, top: topPage, method: queryPage, query: queryPage, receivers: receiversPage, tuning: tuningPage,
  time: timePage, compare: comparePage, doctor: doctorPage, fleet: fleetPage,
};
const server = new Remote(), app = new App(pages, new Address(""), server, server);
app.following = new Live(server, app.main, (hasFailed) => hasFailed ? app.show() : server.again(() => app.show(true)));
void app.show();
