"""`astra trace`: find errors in traces, repair them, describe their content, and extend them to more ranks."""
