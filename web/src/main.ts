document.body.textContent = "ccmapd";
