"""One problem by many methods, ours and others', judged alike."""
