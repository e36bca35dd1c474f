(()=>{document.body.textContent="ccmapd";})();
