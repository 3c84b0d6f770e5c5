title "Dirty tracking: split on fault or up front"
source "KVM: arm64: Eager Huge-page splitting for dirty-logging"
pending "a dirty log of written pages"
