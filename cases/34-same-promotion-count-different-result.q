title "Same promotion count, different result"
source "mm: Hot page tracking and promotion infrastructure, Graph500"
pending "promotion"
