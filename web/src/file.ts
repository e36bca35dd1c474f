// The pages of a single file, which has its profiles inside.
import { App } from "./app";
import { comparePage } from "./comparepage";
import { flamePage } from "./flamepage";
import { queryPage, topPage } from "./listpages";
import { embedded } from "./local";
import { receiversPage } from "./receiverspage";
import { Address } from "./state";

const pages = { flame: flamePage, top: topPage, method: queryPage, query: queryPage, receivers: receiversPage, compare: comparePage };

void embedded().then((local) => {
  const first = local.compares ? "/compare" : "/p/" + local.last + "/flame";
  return new App(pages, new Address(local.last, first), local, null, local.compares).show();
});
