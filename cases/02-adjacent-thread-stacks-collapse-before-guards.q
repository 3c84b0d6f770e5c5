title "Adjacent thread stacks collapse before guards exist"
source "openjdk/jdk#14919, openjdk/jdk#14105, jdk11u-dev#2205"
pending "khugepaged"
