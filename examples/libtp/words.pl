#!/usr/bin/perl
# words.pl FILE [TEXT...] -- counts words in a B-tree of Perl's DB_File, and prints the three that
# come most often. It knows nothing of transactions.
use strict;
use warnings;
use DB_File;
use Fcntl;

my $file = shift;
tie my %count, 'DB_File', $file, O_RDWR | O_CREAT, 0644, $DB_BTREE or die "$file: $!\n";
while (my $line = <>) { $count{lc $_}++ for $line =~ /\w+/g }
my @most = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$_ $count{$_}\n" for grep { defined } @most[0 .. 2];
untie %count;
