// Package awscluster builds the networks of AWSClusters, the objects of Cluster API's AWS
// provider, and keeps them as their specs say.
//
// A reading of the account gives a plan (pkg/awsnet). The controller makes each call of it as
// a write of its own, so the networks of many clusters are built side by side, and a wait for
// AWS holds no worker. When the plan is done, the account is read again: only a reading that
// finds no difference makes a network ready, and only one that finds nothing of the cluster
// removes the finalizer.
package awscluster
