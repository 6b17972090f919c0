#!/usr/bin/perl
# Folds the text of perf script in one pass, for faultprof import to be measured against: a regular
# expression per line, a stack that grows frame by frame, and a hash of folded stacks.
use strict;
use warnings;

my ($task, @stack, %count);

sub finish {
    $count{join(";", $task, @stack)}++ if defined $task;
    undef $task;
    @stack = ();
}

while (my $line = <STDIN>) {
    chomp $line;
    if ($line eq "") {
        finish();
    } elsif ($line =~ /^\s+([0-9a-f]+) (.+) \(([^)]*)\)$/) {
        my ($address, $function, $file) = ($1, $2, $3);
        $function =~ s/\+0x[0-9a-f]+$//;
        if ($function eq "[unknown]") {
            $file =~ s{.*/}{};
            $function = "[$file]";
        }
        unshift @stack, $address =~ /^ffff/ ? $function . "_[k]" : $function;
    } elsif ($line =~ /^(\S.*?)\s+\d+(?:\/\d+)?\s+/) {
        finish() if defined $task;
        $task = $1;
    }
}
finish();
print "$_ $count{$_}\n" for sort keys %count;
