"""PDFs that are uploaded in the browser become XML, through a gateway that is not always well."""
